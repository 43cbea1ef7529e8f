#include "rig.h"

const struct target_rig *const rigs[] = {&rig_null,  &rig_http,     &rig_amqp, &rig_kafka,
                                         &rig_stomp, &rig_rocketmq, NULL};
