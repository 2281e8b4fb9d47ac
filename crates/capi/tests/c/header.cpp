// cm.h is C++ too.
#include <cm.h>

int main()
{
    cm_callbacks callbacks = {};
    callbacks.send = [](cm_id id, int, void *) { cm_notify(id, 0); };
    return cm_open(nullptr, 0, &callbacks, nullptr) == CM_EINVAL ? 0 : 1;
}
